-- +goose Up
-- Ids of events that the pages of a listing follow, empty if there is none. An undone review is none of them.
ALTER TABLE summaries ADD COLUMN latest_review text NOT NULL DEFAULT '';
ALTER TABLE summaries ADD COLUMN latest_verified text NOT NULL DEFAULT '';
ALTER TABLE summaries ADD COLUMN latest_evidence text NOT NULL DEFAULT '';
-- Closed reviews have derived facts now, and undone ones have no effect.
UPDATE summaries SET derived = 0;

-- +goose Down
ALTER TABLE summaries DROP COLUMN latest_evidence;
ALTER TABLE summaries DROP COLUMN latest_verified;
ALTER TABLE summaries DROP COLUMN latest_review;
