-- +goose Up
-- Every change of a listing looks for its material changes, which few listings have.
CREATE INDEX listing_changes_material ON listing_changes (listing_id, id) WHERE material;

-- +goose Down
DROP INDEX listing_changes_material;
