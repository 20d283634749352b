-- +goose Up
-- Consumers read the changes of public records by the sequences of the listings. 0 is unknown: written by the release before.
ALTER TABLE changes ADD COLUMN at bigint NOT NULL DEFAULT 0;
CREATE INDEX changes_by_time ON changes (at, sequence);
-- That of the listing after the change, which tells whether its latest change published it.
ALTER TABLE listing_changes ADD COLUMN sequence bigint NOT NULL DEFAULT 0;

-- +goose Down
ALTER TABLE listing_changes DROP COLUMN sequence;
DROP INDEX changes_by_time;
ALTER TABLE changes DROP COLUMN at;
