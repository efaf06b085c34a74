-- Each line item with its order: what all reports of sales are made of.
-- test: unique(order_id, line)
-- test: not_null(customer, day, revenue)
-- test: relationships(customer, dwd.customers.customer)
CREATE INCREMENTAL TABLE dwd.order_items KEY (order_id, line)
COMMENT 'Line items of orders, with the revenue after discount'
AS
SELECT l.l_orderkey AS order_id, l.l_linenumber AS line, o.o_custkey AS customer, o.o_orderdate AS day,
  l.l_quantity AS quantity, CAST(l.l_extendedprice * (1 - l.l_discount) AS DECIMAL(15,2)) AS revenue,
  l.l_returnflag = 'R' AS is_returned
FROM ods.lineitem l JOIN ods.orders o ON l.l_orderkey = o.o_orderkey
