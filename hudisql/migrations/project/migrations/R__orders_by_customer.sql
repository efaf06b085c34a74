-- Runs again whenever this file has changed.
CREATE OR REPLACE VIEW shop.orders_by_customer AS
SELECT c.customer_id, c.name, count(*) AS orders, sum(o.amount) AS amount
FROM shop.orders o JOIN shop.customers c ON o.customer_id = c.customer_id
GROUP BY c.customer_id, c.name;
