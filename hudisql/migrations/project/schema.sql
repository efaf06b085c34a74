-- What is there before the first script, for `hudisql check --schema schema.sql`. Nothing yet: V1 makes it.
-- A project on tables of its own lists them here, as SHOW CREATE TABLE prints them.
CREATE TABLE shop.stores (store_id BIGINT, city STRING) USING parquet;
