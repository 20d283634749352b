-- +goose Up
-- What the history signed of itself. The signed text decides; number, made_at and size repeat it to be searched by.
CREATE TABLE checkpoints (
    number      bigint PRIMARY KEY,
    day         text   UNIQUE, -- the UTC day whose checkpoint it is; null for one that was asked for
    made_at     bigint NOT NULL,
    size        bigint NOT NULL,
    note        text   NOT NULL,
    consistency text   NOT NULL, -- hashes in base64, separated by spaces
    frontier    text   NOT NULL
);
COMMENT ON TABLE checkpoints IS 'append-only';
CREATE INDEX checkpoints_made_at ON checkpoints (made_at);

-- The chains that grew since the checkpoint before.
CREATE TABLE checkpoint_heads (
    checkpoint bigint NOT NULL REFERENCES checkpoints,
    chain      text   NOT NULL, -- hash of its first event
    slug       text   NOT NULL,
    events     bigint NOT NULL,
    hash       text   NOT NULL,
    PRIMARY KEY (checkpoint, chain)
);
CREATE INDEX checkpoint_heads_slug ON checkpoint_heads (slug, checkpoint DESC);
COMMENT ON TABLE checkpoint_heads IS 'append-only';

-- The hashes of the leaves that were signed, 32 bytes each: they tell which event was replaced where the tree tells only that
-- one was.
CREATE TABLE checkpoint_leaves (
    first  bigint PRIMARY KEY, -- sequence of the first
    hashes bytea  NOT NULL
);
COMMENT ON TABLE checkpoint_leaves IS 'append-only';

-- +goose StatementBegin
DO $$
DECLARE
    name text;
BEGIN
    FOREACH name IN ARRAY ARRAY['checkpoints', 'checkpoint_heads', 'checkpoint_leaves'] LOOP
        EXECUTE format('CREATE TRIGGER append_only_rows BEFORE UPDATE OR DELETE ON %I
            FOR EACH ROW EXECUTE FUNCTION refuse_change()', name);
        EXECUTE format('CREATE TRIGGER append_only_table BEFORE TRUNCATE ON %I
            FOR EACH STATEMENT EXECUTE FUNCTION refuse_change()', name);
        EXECUTE format('ALTER TABLE %I ENABLE ALWAYS TRIGGER append_only_rows', name);
        EXECUTE format('ALTER TABLE %I ENABLE ALWAYS TRIGGER append_only_table', name);
    END LOOP;
END
$$;
-- +goose StatementEnd
