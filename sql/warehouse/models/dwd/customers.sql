-- Customers as reports name them.
-- test: not_null(customer, segment)
-- test: accepted_values(segment, 'automobile', 'building', 'furniture', 'household', 'machinery')
CREATE INCREMENTAL TABLE dwd.customers
COMMENT 'Customers with names and segments cleaned'
AS
SELECT c_custkey AS customer, trim(c_name) AS name, lower(c_mktsegment) AS segment, c_nationkey AS nation
FROM ods.customer
