-- +goose Up
-- Earliest dates of pages that were sources and have no date now: a JSON object of dates by URL, or empty.
ALTER TABLE listings ADD COLUMN past_dates text NOT NULL DEFAULT '';
-- Sequence of the latest change that consumers can see, 0 if there was none.
ALTER TABLE listings ADD COLUMN public_sequence bigint NOT NULL DEFAULT 0;
UPDATE listings SET public_sequence = sequence
    WHERE EXISTS (SELECT 1 FROM listing_changes c WHERE c.listing_id = listings.id AND c.what = 'published');
CREATE INDEX listings_by_public_sequence ON listings (public_sequence);
-- Whether consumers can see the change.
ALTER TABLE changes ADD COLUMN public boolean NOT NULL DEFAULT true;
CREATE INDEX changes_public ON changes (sequence) WHERE public;

-- +goose Down
DROP INDEX changes_public;
ALTER TABLE changes DROP COLUMN public;
DROP INDEX listings_by_public_sequence;
ALTER TABLE listings DROP COLUMN public_sequence;
ALTER TABLE listings DROP COLUMN past_dates;
