-- +goose Up
-- For what an operator did, and for what was done since a time.
CREATE INDEX listing_changes_by_actor ON listing_changes (actor, id);
CREATE INDEX listing_changes_by_time ON listing_changes (at);

-- +goose Down
DROP INDEX listing_changes_by_time;
DROP INDEX listing_changes_by_actor;
