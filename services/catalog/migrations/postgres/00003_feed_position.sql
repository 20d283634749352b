-- +goose Up
-- Position in history's feed up to which summaries were derived by its current rules. It begins at 0, so that an upgrade reads every
-- summary again. value stays the position of replicas that have yet to be upgraded, and of a release that was rolled back to.
ALTER TABLE feed_cursor ADD COLUMN position bigint NOT NULL DEFAULT 0;

-- +goose Down
ALTER TABLE feed_cursor DROP COLUMN position;
