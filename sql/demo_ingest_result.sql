-- What the demo of ingest shows after each run of the worker.
SELECT dt, count(*) AS clicks, count(DISTINCT click_id) AS click_ids, max(ts) AS newest FROM lake.clicks GROUP BY dt ORDER BY dt;
SELECT city, count(*) AS customers FROM lake.customers GROUP BY city ORDER BY city;
CALL show_ingest();
CALL show_commits(table => 'lake.clicks');
