-- +goose Up
-- As listings.id: only columns of one collation can use each other's indexes in a join.
-- Contract: only the order of comparisons changes, and the previous version does not use these tables.
ALTER TABLE listing_index ALTER COLUMN listing_id TYPE text COLLATE "C";
ALTER TABLE leases ALTER COLUMN listing_id TYPE text COLLATE "C";
ALTER TABLE drafts ALTER COLUMN listing_id TYPE text COLLATE "C";
ALTER TABLE skips ALTER COLUMN listing_id TYPE text COLLATE "C";
ALTER TABLE quotes ALTER COLUMN listing_id TYPE text COLLATE "C";

-- +goose Down
ALTER TABLE quotes ALTER COLUMN listing_id TYPE text;
ALTER TABLE skips ALTER COLUMN listing_id TYPE text;
ALTER TABLE drafts ALTER COLUMN listing_id TYPE text;
ALTER TABLE leases ALTER COLUMN listing_id TYPE text;
ALTER TABLE listing_index ALTER COLUMN listing_id TYPE text;
