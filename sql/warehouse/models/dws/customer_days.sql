-- What each customer bought on each day.
-- test: unique(customer, day)
CREATE INCREMENTAL TABLE dws.customer_days
COMMENT 'Orders, items and revenue of each customer and day'
AS
SELECT customer, day, count(DISTINCT order_id) AS orders, count(*) AS items,
  CAST(sum(revenue) AS DECIMAL(17,2)) AS revenue
FROM dwd.order_items
WHERE NOT is_returned
GROUP BY customer, day
