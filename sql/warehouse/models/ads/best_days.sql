-- The three best days of each customer.
-- test: accepted_values(place, 1, 2, 3)
CREATE INCREMENTAL TABLE ads.best_days KEY (customer, place)
COMMENT 'The three days on which each customer bought most'
AS
SELECT customer, place, day, revenue
FROM (
  SELECT customer, day, revenue,
    row_number() OVER (PARTITION BY customer ORDER BY revenue DESC, day) AS place
  FROM dws.customer_days
)
WHERE place <= 3
