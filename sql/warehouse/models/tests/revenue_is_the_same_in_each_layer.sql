-- A test: it fails if the query gives rows.
SELECT m.revenue AS by_month, i.revenue AS by_item
FROM (SELECT sum(revenue) AS revenue FROM ads.months) m,
  (SELECT sum(revenue) AS revenue FROM dwd.order_items WHERE NOT is_returned) i
WHERE m.revenue <> i.revenue
