-- The order in which keys became visible, which gateways follow to learn the digests of all keys.

-- +goose Up
ALTER TABLE api_keys ADD COLUMN sequence bigint; -- the trigger sets it
UPDATE api_keys SET sequence = numbered.n
  FROM (SELECT id, row_number() OVER (ORDER BY created_at, id) AS n FROM api_keys) AS numbered
  WHERE api_keys.id = numbered.id;
CREATE UNIQUE INDEX api_keys_by_sequence ON api_keys (sequence);

-- The last sequence given.
CREATE TABLE key_sequence (
  id    bigint PRIMARY KEY CHECK (id = 1),
  value bigint NOT NULL
);
INSERT INTO key_sequence (id, value) SELECT 1, count(*) FROM api_keys;

-- +goose StatementBegin
CREATE TRIGGER api_keys_set_sequence AFTER INSERT ON api_keys BEGIN
  UPDATE key_sequence SET value = value + 1;
  UPDATE api_keys SET sequence = (SELECT value FROM key_sequence) WHERE id = NEW.id;
END;
-- +goose StatementEnd

-- +goose Down
DROP TRIGGER api_keys_set_sequence;
DROP TABLE key_sequence;
DROP INDEX api_keys_by_sequence;
ALTER TABLE api_keys DROP COLUMN sequence;
