-- The order in which keys became visible, which gateways follow to learn the digests of all keys.

-- +goose Up
ALTER TABLE api_keys ADD COLUMN sequence bigint; -- the trigger sets it
UPDATE api_keys SET sequence = numbered.n
  FROM (SELECT id, row_number() OVER (ORDER BY created_at, id) AS n FROM api_keys) AS numbered
  WHERE api_keys.id = numbered.id;
CREATE UNIQUE INDEX api_keys_by_sequence ON api_keys (sequence);

-- The last sequence given. The lock on its row makes transactions that add keys commit in the order of their sequences, so a
-- reader never sees a sequence before a smaller one. A trigger does it, because older releases add keys during an update.
CREATE TABLE key_sequence (
  id    bigint PRIMARY KEY CHECK (id = 1),
  value bigint NOT NULL
);
INSERT INTO key_sequence (id, value) SELECT 1, count(*) FROM api_keys;

-- +goose StatementBegin
CREATE FUNCTION api_keys_set_sequence() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  UPDATE key_sequence SET value = value + 1 RETURNING value INTO NEW.sequence;
  RETURN NEW;
END
$$;
-- +goose StatementEnd
CREATE TRIGGER api_keys_set_sequence BEFORE INSERT ON api_keys
  FOR EACH ROW EXECUTE FUNCTION api_keys_set_sequence();

-- +goose Down
DROP TRIGGER api_keys_set_sequence ON api_keys;
DROP FUNCTION api_keys_set_sequence;
DROP TABLE key_sequence;
ALTER TABLE api_keys DROP COLUMN sequence;
