-- The changes of one day, ${day}: every day, not once, so it is a job and no migration.
MERGE INTO shop.orders t
USING (SELECT * FROM shop.order_changes WHERE day = '${day}') s
ON t.order_id = s.order_id
WHEN MATCHED AND s.is_cancelled THEN DELETE
WHEN MATCHED THEN UPDATE SET amount = s.amount, updated_at = s.updated_at
WHEN NOT MATCHED THEN INSERT (order_id, customer_id, amount, updated_at, day)
  VALUES (s.order_id, s.customer_id, s.amount, s.updated_at, s.day);
