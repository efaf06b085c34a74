-- Sales by month.
-- test: unique(month)
CREATE INCREMENTAL TABLE ads.months
COMMENT 'Revenue, orders and days with sales of each month'
AS
SELECT date_format(day, 'yyyy-MM') AS month, CAST(sum(revenue) AS DECIMAL(19,2)) AS revenue,
  sum(orders) AS orders, count(DISTINCT day) AS days
FROM dws.customer_days
GROUP BY date_format(day, 'yyyy-MM')
