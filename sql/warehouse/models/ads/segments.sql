-- Sales by segment of the market and year.
-- test: unique(segment, year)
CREATE INCREMENTAL TABLE ads.segments
COMMENT 'Revenue and customers of each segment and year'
AS
SELECT c.segment, year(d.day) AS year, CAST(sum(d.revenue) AS DECIMAL(19,2)) AS revenue,
  count(DISTINCT d.customer) AS customers
FROM dws.customer_days d JOIN dwd.customers c ON d.customer = c.customer
GROUP BY c.segment, year(d.day)
