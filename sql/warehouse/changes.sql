-- One round of changes to ODS: ${round} is a number. New orders come, some are cancelled, prices and
-- customers change.
CREATE OR REPLACE TEMPORARY VIEW new_orders AS
  SELECT o_orderkey + ${round} * 100000000 AS o_orderkey, o_custkey, 'O' AS o_orderstatus, o_totalprice,
    DATE_ADD(DATE '1998-08-02', ${round}) AS o_orderdate, o_orderpriority, o_orderkey AS copied_from
  FROM ods.orders WHERE o_orderkey < 100000000 AND o_orderkey % 499 = ${round};

MERGE INTO ods.lineitem AS t
USING (
  SELECT n.o_orderkey AS l_orderkey, l.l_linenumber, l.l_quantity, l.l_extendedprice, l.l_discount, 'N' AS l_returnflag
  FROM new_orders n JOIN ods.lineitem l ON l.l_orderkey = n.copied_from
) AS s
ON t.l_orderkey = s.l_orderkey AND t.l_linenumber = s.l_linenumber
WHEN NOT MATCHED THEN INSERT (l_orderkey, l_linenumber, l_quantity, l_extendedprice, l_discount, l_returnflag)
  VALUES (s.l_orderkey, s.l_linenumber, s.l_quantity, s.l_extendedprice, s.l_discount, s.l_returnflag);

MERGE INTO ods.orders AS t
USING (
  SELECT o_orderkey, o_custkey, o_orderstatus, o_totalprice, o_orderdate, o_orderpriority, false AS is_cancelled
  FROM new_orders
  UNION ALL
  SELECT o_orderkey, o_custkey, o_orderstatus, o_totalprice, o_orderdate, o_orderpriority, true
  FROM ods.orders WHERE o_orderkey < 100000000 AND o_orderkey % 1999 = ${round}
) AS s
ON t.o_orderkey = s.o_orderkey
WHEN MATCHED AND s.is_cancelled THEN DELETE
WHEN NOT MATCHED THEN INSERT (o_orderkey, o_custkey, o_orderstatus, o_totalprice, o_orderdate, o_orderpriority)
  VALUES (s.o_orderkey, s.o_custkey, s.o_orderstatus, s.o_totalprice, s.o_orderdate, s.o_orderpriority);

MERGE INTO ods.customer AS t
USING (SELECT c_custkey FROM ods.customer WHERE c_custkey % 997 = ${round}) AS s
ON t.c_custkey = s.c_custkey
WHEN MATCHED THEN UPDATE SET c_mktsegment = 'MACHINERY';
