-- Where the changes of a day arrive.
CREATE TABLE IF NOT EXISTS shop.order_changes
  (order_id BIGINT, customer_id BIGINT, amount DOUBLE, updated_at BIGINT, day STRING, is_cancelled BOOLEAN)
  USING parquet LOCATION '${source}/order_changes';
