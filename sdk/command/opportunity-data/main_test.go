package main

import (
	"bytes"
	"database/sql"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"opportunity.internal/sdk/go/opportunity"
)

// unreviewed is the verification of a record without reviews.
const unreviewed = `"verification":{"lastCheckedAt":null,"freshUntil":null}`

// list serves records as the only page of the list.
func list(t *testing.T, records ...string) {
	t.Helper()
	serve(t, false, records...)
}

// serve serves records as the only page of the list, after a failure if fail is set.
func serve(t *testing.T, fail bool, records ...string) {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if fail {
			fail = false
			w.WriteHeader(http.StatusBadGateway)
			return
		}
		if r.URL.Path != "/api/v1/opportunities" {
			w.WriteHeader(http.StatusPaymentRequired)
			_, _ = io.WriteString(w, `{"error":{"code":"subscription_required","message":""},"documentation":""}`)
			return
		}
		if got := r.Header.Get("User-Agent"); !strings.HasPrefix(got, "opportunity-data/") {
			t.Errorf("got User-Agent %q", got)
		}
		_, _ = io.WriteString(w, `{"data":[`+strings.Join(records,
			",")+`],"pagination":{"limit":100,"hasMore":false,"next":null},"meta":{"version":"1"}}`)
	}))
	t.Cleanup(server.Close)
	t.Setenv("OPPORTUNITY_URL", server.URL)
	t.Setenv("OPPORTUNITY_KEY", "k")
}

func TestExportKeepsEachFormatUpToDate(t *testing.T) {
	const a = `{"id":"a","summary":"A",` + unreviewed + `}`
	const b = `{"id":"b","facts":{"remote":true},` + unreviewed + `}`
	for _, name := range []string{"copy.db", "copy.csv", "copy.ndjson"} {
		file := filepath.Join(t.TempDir(), name)
		for _, records := range [][]string{{a, b}, {b}} {
			list(t, records...)
			var out bytes.Buffer
			if err := run(t.Context(), []string{"export", file}, &out, io.Discard); err != nil {
				t.Fatal(err)
			}
			if want := fmt.Sprintf("%s: %d records, %[2]d read, %d removed\n", file, len(records),
				2-len(records)); out.String() != want {
				t.Errorf("got %q, want %q", &out, want)
			}
			age(t, file)
		}
		if got := ids(t, file); got != "b" {
			t.Errorf("%s has %s, want b", name, got)
		}
	}
}

// age makes the next run read everything.
func age(t *testing.T, file string) {
	t.Helper()
	memory := file + ".copy.json"
	if strings.HasSuffix(file, ".db") {
		query(t, file, "DELETE FROM sync_state")
		return
	}
	text, err := os.ReadFile(memory)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(memory, bytes.Replace(text, []byte(`"go"`), []byte(`"python"`), 1), 0o600); err != nil {
		t.Fatal(err)
	}
}

// ids returns the ids in a copy.
func ids(t *testing.T, file string) string {
	t.Helper()
	if strings.HasSuffix(file, ".db") {
		return query(t, file, "SELECT group_concat(id) FROM opportunities WHERE remote")
	}
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if strings.HasSuffix(file, ".csv") {
		_, rows, _ := strings.Cut(string(text), "\r\n")
		first, _, _ := strings.Cut(rows, ",")
		return strings.Trim(first, `"`)
	}
	var record struct{ ID string }
	if err := json.Unmarshal(text, &record); err != nil {
		t.Fatal(err)
	}
	return record.ID
}

// query returns the only value that a statement returns, if any.
func query(t *testing.T, file, statement string) string {
	t.Helper()
	db, err := sql.Open("sqlite", file)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	rows, err := db.QueryContext(t.Context(), statement)
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	var value string
	if rows.Next() {
		err = rows.Scan(&value)
	}
	if err != nil || rows.Err() != nil {
		t.Fatal(err, rows.Err())
	}
	return value
}

// TestViewHasTheValuesOfOtherSDKs compares a copy in SQLite with the one that all SDKs write.
func TestViewHasTheValuesOfOtherSDKs(t *testing.T) {
	text, err := os.ReadFile("../../conformance/fixtures/exports.json")
	if err != nil {
		t.Fatal(err)
	}
	var exports struct {
		Query string
		Rows  [][]any
	}
	if err := json.Unmarshal(text, &exports); err != nil {
		t.Fatal(err)
	}
	list(t, `{"id":"a","company":{"name":"=HYPERLINK(\"https://evil.example\")"},"facts":{"degreeRequired":false,`+
		`"requirements":["=1","a;=1"]},`+
		`"verification":{"status":"verified","lastCheckedAt":null,"freshUntil":"2020-12-04T10:00:00Z"}}`)
	file := filepath.Join(t.TempDir(), "copy.db")
	if err := run(t.Context(), []string{"export", file}, io.Discard, io.Discard); err != nil {
		t.Fatal(err)
	}
	want, err := json.Marshal(exports.Rows[0])
	if err != nil {
		t.Fatal(err)
	}
	columns := strings.TrimSuffix(strings.TrimPrefix(exports.Query, "SELECT "), " FROM opportunities ORDER BY id")
	got := query(t, file, "SELECT json_array("+columns+") FROM opportunities")
	if got != string(want) {
		t.Errorf("got %s\nwant %s", got, want)
	}
}

func TestWaitsAreLogged(t *testing.T) {
	serve(t, true)
	var log bytes.Buffer
	if err := run(t.Context(), []string{"export", filepath.Join(t.TempDir(), "copy.csv")}, io.Discard,
		&log); err != nil {
		t.Fatal(err)
	}
	if got := log.String(); !strings.HasPrefix(got, "opportunity: invalid_response: ") ||
		!strings.Contains(got, "; retrying in ") {
		t.Errorf("got log %q", got)
	}
}

func TestAddressWithoutServiceIsNamed(t *testing.T) {
	list(t)
	t.Setenv("OPPORTUNITY_URL", "http://127.0.0.1:1")
	var log bytes.Buffer
	err := run(t.Context(), []string{"export", filepath.Join(t.TempDir(), "copy.csv")}, io.Discard, &log)
	const want = "no response from http://127.0.0.1:1: dial"
	if err == nil || !strings.Contains(err.Error(), want) || strings.Count(log.String(), want) != 1 ||
		strings.Contains(log.String(), " 0s") {
		t.Errorf("got error %v and log %q, want %q in both", err, &log, want)
	}
}

// TestCopyIsTheNamedFile exports to names with a meaning in a URI or for SQLite.
func TestCopyIsTheNamedFile(t *testing.T) {
	list(t, `{"id":"a",`+unreviewed+`}`)
	for _, name := range []string{
		"a#b.db", "a%20b.db", "a b.db", "q?mode=ro.db", "q?vfs=none&x.db", ":memory:.db", "file:x.db",
		"file:?mode=memory.db", "é;+&=.sqlite", "%.db",
	} {
		t.Chdir(t.TempDir())
		if err := run(t.Context(), []string{"export", name}, io.Discard, io.Discard); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		files, err := filepath.Glob("*")
		if err != nil || len(files) != 1 || files[0] != name {
			t.Errorf("%s: got files %q", name, files)
		}
	}
}

func TestBodyThatIsNoListKeepsTheCopy(t *testing.T) {
	file := filepath.Join(t.TempDir(), "copy.db")
	list(t, `{"id":"a",`+unreviewed+`}`)
	if err := run(t.Context(), []string{"export", file}, io.Discard, io.Discard); err != nil {
		t.Fatal(err)
	}
	age(t, file)
	portal := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_,
			_ = io.WriteString(w, `{}`)
	}))
	defer portal.Close()
	t.Setenv("OPPORTUNITY_URL", portal.URL)
	var out bytes.Buffer
	if err := run(t.Context(), []string{"export", file}, &out, io.Discard); err == nil || out.Len() != 0 {
		t.Errorf("got output %q and error %v", &out, err)
	}
	if got := query(t, file, "SELECT group_concat(id) FROM records"); got != "a" {
		t.Errorf("got records %q", got)
	}
}

func TestWrongCommandLinesAreErrors(t *testing.T) {
	list(t)
	for _, args := range [][]string{{}, {"import", "a.db"}, {"export"}, {"export", "a.db", "b.db"},
		{"export", "--every", "-1m", "a.db"}, {"export", "a.txt"}} {
		if err := run(t.Context(), args, io.Discard, io.Discard); err == nil {
			t.Errorf("%v is accepted", args)
		}
	}
	t.Setenv("OPPORTUNITY_KEY", "")
	if err := run(t.Context(), []string{"export", filepath.Join(t.TempDir(), "a.csv")}, io.Discard,
		io.Discard); err == nil {
		t.Error("no key is needed")
	}
}

func TestHelpAndVersionNeedNoService(t *testing.T) {
	for flag, want := range map[string]string{
		"--help":    "Usage: opportunity-data export",
		"--version": "opportunity-data " + opportunity.Version + "\n",
	} {
		var out strings.Builder
		if err := run(t.Context(), []string{flag}, &out, io.Discard); err != nil || !strings.HasPrefix(out.String(), want) {
			t.Errorf("%s: got %q, %v, want %q", flag, out.String(), err, want)
		}
	}
}
