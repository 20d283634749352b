-- +goose Up
-- The layout of the hash and the leaf of an event; 0 in releases before layouts were numbered.
ALTER TABLE verification_events ADD COLUMN form integer NOT NULL DEFAULT 0;

-- The tree over all events, as tiles of C2SP tlog-tiles: up to 256 hashes of 32 bytes. The last tile of each level grows.
CREATE TABLE log_tiles (
    level  integer NOT NULL,
    number bigint  NOT NULL,
    hashes bytea   NOT NULL,
    PRIMARY KEY (level, number)
);

-- The signed checkpoints of the log. The signed text decides.
CREATE TABLE log_checkpoints (
    origin  text   NOT NULL,
    size    bigint NOT NULL, -- events
    made_at bigint NOT NULL,
    note    text   NOT NULL,
    PRIMARY KEY (origin, size)
);
CREATE INDEX log_checkpoints_size ON log_checkpoints (size DESC);
COMMENT ON TABLE log_checkpoints IS 'append-only';

-- The replies of witnesses to checkpoints: a signature, or the reason why the witness rejected the checkpoint.
CREATE TABLE log_replies (
    origin    text   NOT NULL,
    size      bigint NOT NULL,
    witness   text   NOT NULL,
    signature text   NOT NULL, -- base64; empty if the witness rejected it
    rejection   text   NOT NULL,
    made_at   bigint NOT NULL,
    PRIMARY KEY (origin, size, witness),
    FOREIGN KEY (origin, size) REFERENCES log_checkpoints
);
COMMENT ON TABLE log_replies IS 'append-only';

-- +goose StatementBegin
CREATE FUNCTION refuse_other_hashes() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP <> 'UPDATE' OR NEW.level <> OLD.level OR NEW.number <> OLD.number
            OR substring(NEW.hashes FROM 1 FOR length(OLD.hashes)) <> OLD.hashes THEN
        RAISE EXCEPTION 'table log_tiles: a tile only grows: % refused', TG_OP;
    END IF;
    RETURN NEW;
END
$$;
-- +goose StatementEnd
CREATE TRIGGER log_tiles_grow BEFORE UPDATE OR DELETE ON log_tiles FOR EACH ROW EXECUTE FUNCTION refuse_other_hashes();
ALTER TABLE log_tiles ENABLE ALWAYS TRIGGER log_tiles_grow;

-- +goose StatementBegin
DO $$
DECLARE
    name text;
BEGIN
    FOREACH name IN ARRAY ARRAY['log_checkpoints', 'log_replies'] LOOP
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
