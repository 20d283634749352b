package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net/http"
	"strconv"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// serveRecords serves records from Postgres: net/http and pgx, without authentication, limits, or a cache.
//
// The table is records(id text, position bigint, body text): position is the place of a record in the list.
func serveRecords(args []string) error {
	flags := flag.NewFlagSet("record", flag.ContinueOnError)
	listen := flags.String("listen", "127.0.0.1:8080", "host and port")
	database := flags.String("database", "", "URL of Postgres")
	if err := flags.Parse(args); err != nil {
		return err
	}
	pool, err := pgxpool.New(context.Background(), *database)
	if err != nil {
		return err
	}
	defer pool.Close()
	return http.ListenAndServe(*listen, records(pool)) //nolint:gosec // serves the benchmark on loopback
}

// records returns a handler of two routes:
//
//	GET /record/ID     the record
//	GET /list?page=N   100 records, and the total
func records(pool *pgxpool.Pool) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /record/{id}", func(w http.ResponseWriter, r *http.Request) {
		body, err := record(r.Context(), pool, r.PathValue("id"))
		reply(w, body, err)
	})
	mux.HandleFunc("GET /list", func(w http.ResponseWriter, r *http.Request) {
		page, _ := strconv.Atoi(r.FormValue("page"))
		body, err := list(r.Context(), pool, max(page, 1))
		reply(w, body, err)
	})
	return mux
}

func reply(w http.ResponseWriter, body []byte, err error) {
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		http.Error(w, "not found", http.StatusNotFound)
	case err != nil:
		http.Error(w, err.Error(), http.StatusInternalServerError)
	default:
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Content-Length", strconv.Itoa(len(body)))
		_, _ = w.Write(body)
	}
}

// record returns a record by primary key.
func record(ctx context.Context, pool *pgxpool.Pool, id string) ([]byte, error) {
	body := []byte(`{"data":`)
	var row []byte
	err := pool.QueryRow(ctx, "SELECT body FROM records WHERE id = $1", id).Scan(&row)
	return append(append(body, row...), '}'), err
}

const pageSize = 100

// list returns a page of records and the number of all.
func list(ctx context.Context, pool *pgxpool.Pool, page int) ([]byte, error) {
	var total int
	if err := pool.QueryRow(ctx, "SELECT count(*) FROM records").Scan(&total); err != nil {
		return nil, err
	}
	rows, err := pool.Query(ctx, "SELECT body FROM records ORDER BY position LIMIT $1 OFFSET $2", pageSize, (page-1)*pageSize)
	if err != nil {
		return nil, err
	}
	bodies, err := pgx.CollectRows(rows, pgx.RowTo[[]byte])
	body := []byte(`{"data":[`)
	for i, row := range bodies {
		if i > 0 {
			body = append(body, ',')
		}
		body = append(body, row...)
	}
	return fmt.Appendf(body, `],"total":%d}`, total), err
}
