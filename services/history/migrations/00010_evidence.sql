-- +goose Up
-- Private evidence of a review, salted JSON as it was hashed; null if there is none. There is no way back: the hash of the event covers it.
ALTER TABLE verification_events ADD COLUMN evidence text;
-- Summaries have the sources of the reviews now.
UPDATE summaries SET derived = 0;
