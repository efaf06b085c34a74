-- What each layer shows after a round.
SELECT count(*) AS orders, max(o_orderdate) AS newest_day FROM ods.orders;
SELECT count(*) AS items, count(DISTINCT order_id) AS orders FROM dwd.order_items;
SELECT count(*) AS customer_days, sum(revenue) AS revenue FROM dws.customer_days;
SELECT month, revenue, orders, days FROM ads.months ORDER BY month DESC LIMIT 2;
SELECT segment, year, revenue, customers FROM ads.segments WHERE year = 1998 ORDER BY segment;
SELECT customer, place, day, revenue FROM ads.best_days ORDER BY revenue DESC, customer LIMIT 3;
