-- How long a key is valid when an operator chose less than the longest life, so that its successor gets the same life. NULL means the
-- longest life. Until now a successor kept the end of its predecessor: the life of a key that is in use now runs from the start of the
-- first key of its chain. Keys of another form were imported with an end, not a life.

-- +goose Up
ALTER TABLE api_keys ADD COLUMN life bigint CHECK (life > 0);

WITH RECURSIVE chain (id, begun, imported) AS (
  SELECT id, created_at, prefix NOT IN ('oda_live_', 'oda_test_') FROM api_keys
  WHERE id NOT IN (SELECT successor_id FROM api_keys WHERE successor_id IS NOT NULL)
  UNION ALL
  SELECT k.successor_id, c.begun, c.imported FROM chain c JOIN api_keys k ON k.id = c.id WHERE k.successor_id IS NOT NULL
)
UPDATE api_keys SET life = expires_at - (SELECT c.begun FROM chain c WHERE c.id = api_keys.id)
WHERE replaced_at IS NULL
  AND id IN (SELECT c.id FROM chain c WHERE NOT c.imported AND api_keys.expires_at - c.begun < 31536000000000);

-- +goose Down
ALTER TABLE api_keys DROP COLUMN life;
