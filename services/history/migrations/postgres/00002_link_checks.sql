-- +goose Up
-- The run of the link checker. Only who holds the lease may claim links; a run that died holds it until it expires.
CREATE TABLE link_run (
    id            integer PRIMARY KEY CHECK (id = 1),
    run           text    NOT NULL, -- the run that holds the lease, empty for none
    held_until    bigint  NOT NULL,
    ended_at      bigint  NOT NULL, -- of the last run that came to an end; 0 before any
    took          bigint  NOT NULL, -- microseconds
    succeeded_at  bigint  NOT NULL  -- when a run last came to the end of all that was due
);
INSERT INTO link_run VALUES (1, '', 0, 0, 0, 0);

-- The last check of each listing's application link. A row is written before the link is asked, and names the instant of the
-- day at which the check fell due: nobody asks for the same instant again, whatever became of the run.
CREATE TABLE link_checks (
    slug        text   PRIMARY KEY,
    due_at      bigint NOT NULL,
    run         text   NOT NULL,
    claimed_at  bigint NOT NULL,
    recorded_at bigint NOT NULL -- 0 until the event is appended, in the same transaction
);

CREATE TABLE link_outcomes (
    outcome text   PRIMARY KEY,
    checks  bigint NOT NULL
);
INSERT INTO link_outcomes VALUES ('reachable', 0), ('blocked', 0), ('unreachable', 0), ('closed', 0), ('needs-review', 0);
