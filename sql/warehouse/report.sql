-- What each layer shows after a round.
SELECT count(*) AS orders, max(o_orderdate) AS newest_day FROM ods.orders;
SELECT count(*) AS items, count(DISTINCT order_id) AS orders FROM dwd.order_items;
SELECT count(*) AS customer_days, sum(revenue) AS revenue FROM dws.customer_days;
SELECT * FROM ads.months ORDER BY month DESC LIMIT 2;
SELECT * FROM ads.segments WHERE year = 1998 ORDER BY segment;
SELECT * FROM ads.best_days ORDER BY revenue DESC, customer LIMIT 3;
