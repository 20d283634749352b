-- +goose Up
-- Old and new values of material changes, for curators, as JSON. Changes of earlier releases have none.
ALTER TABLE listing_changes ADD COLUMN differences text NOT NULL DEFAULT '';

-- +goose Down
ALTER TABLE listing_changes DROP COLUMN differences;
