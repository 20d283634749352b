-- +goose Up
-- The sequence that the summary had when the current rules derived it. Any other value means that older rules did: summaries from
-- before this migration, and those written by replicas that have yet to be upgraded. The service derives these again.
-- A change of the rules needs a migration that sets it to 0.
ALTER TABLE summaries ADD COLUMN derived INTEGER NOT NULL DEFAULT 0;

-- +goose Down
ALTER TABLE summaries DROP COLUMN derived;
