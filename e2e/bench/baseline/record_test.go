package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"opportunity.internal/pkg/storetest"
)

func TestRecordsAndPagesComeFromTheTable(t *testing.T) {
	pool, err := pgxpool.New(t.Context(), storetest.Postgres(t))
	require.NoError(t, err)
	defer pool.Close()
	_, err = pool.Exec(t.Context(), `CREATE TABLE records (id text PRIMARY KEY, position bigint UNIQUE, body text);
		INSERT INTO records SELECT 'r' || i, i, '{"id":"r' || i || '"}' FROM generate_series(1, 250) i`)
	require.NoError(t, err)
	h := records(pool)
	get := func(path string, status int, into any) {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
		require.Equal(t, status, w.Code, "%s", w.Body)
		if into != nil {
			require.NoError(t, json.Unmarshal(w.Body.Bytes(), into))
			require.Equal(t, fmt.Sprint(w.Body.Len()), w.Header().Get("Content-Length"))
		}
	}
	type row struct{ ID string }
	var one struct{ Data row }
	get("/record/r7", http.StatusOK, &one)
	require.Equal(t, "r7", one.Data.ID)
	get("/record/r0", http.StatusNotFound, nil)
	var page struct {
		Data  []row
		Total int
	}
	get("/list?page=3", http.StatusOK, &page)
	require.Len(t, page.Data, 50)
	require.Equal(t, "r201", page.Data[0].ID)
	require.Equal(t, 250, page.Total)
}
