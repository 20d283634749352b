-- +goose Up
-- As listings.id: the summaries of changed listings are found by the primary key, not by reading the whole table.
-- Contract: only the order of comparisons changes, and no version reads this table in an order.
ALTER TABLE summaries ALTER COLUMN listing_id TYPE text COLLATE "C";

-- +goose Down
ALTER TABLE summaries ALTER COLUMN listing_id TYPE text;
