-- +goose Up
-- The history derived its summaries again, with the sources of the reviews: read them again.
UPDATE feed_cursor SET position = 0 WHERE id = 1;
