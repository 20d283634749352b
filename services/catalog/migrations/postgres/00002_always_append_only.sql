-- +goose Up
-- Without ALWAYS the trigger would rest in a session that plays the replica. SQLite has no such session, and no such migration.
ALTER TABLE listing_changes ENABLE ALWAYS TRIGGER append_only;

-- +goose Down
ALTER TABLE listing_changes ENABLE TRIGGER append_only;
