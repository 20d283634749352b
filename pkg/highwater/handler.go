package highwater

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/problem"
)

// readyPath is the path of the readiness, which is served while the database is set back.
const readyPath = "/readyz"

// Handler returns a handler that verifies the marks in each request before next handles it and again before the response begins, and adds the
// newest mark to the response. While the database is set back it rejects requests, except those for the readiness and to a Keeper.
func (g *Guard) Handler(next http.Handler, problems problem.Writer) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if store, ok := strings.CutPrefix(r.URL.Path, api.MarksPath); ok {
			g.keep(w, r, store, problems)
			return
		}
		header, presented := r.Header[api.SeenMarksHeader]
		if r.URL.Path == readyPath || !presented && g.owner.Always == nil && g.Err() == nil && r.URL.Path != api.MarkPath {
			next.ServeHTTP(w, r)
			return
		}
		var marks []string
		if presented && header[0] != "" {
			marks = strings.Split(header[0], ",")
		}
		lost, err := g.Check(r.Context(), marks...)
		if g.Err() != nil {
			g.writeSetBack(w, r, problems)
			return
		}
		if lost {
			w.Header().Set(api.LostHeader, "accepted")
		}
		handler := next
		if r.URL.Path == api.MarkPath {
			if err != nil {
				problems.Write(w, r, err)
				return
			}
			g.once.Do(func() { close(g.reported) })
			handler = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) })
		}
		handler.ServeHTTP(&response{ResponseWriter: w, guard: g, request: r, problems: problems, marks: marks, presented: presented && err == nil}, r)
	})
}

// Lost reports that an operator has accepted that the store lacks a mark of the request: a copy of its feed must start over.
func Lost(w http.ResponseWriter) bool { return w.Header().Get(api.LostHeader) != "" }

// maxReplace is the largest body with marks, in bytes.
const maxReplace = 64 << 10

// keep serves the marks of another store that this service keeps.
func (g *Guard) keep(w http.ResponseWriter, r *http.Request, store string, problems problem.Writer) {
	at := slices.IndexFunc(g.owner.Keeps, func(row Row) bool { return row.Store == store })
	if at < 0 {
		problems.Write(w, r, problem.New(problem.NotFound, problem.NoEndpoint))
		return
	}
	row := g.owner.Keeps[at]
	if r.Method == http.MethodPost {
		var replace api.ReplaceMarks
		err := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxReplace)).Decode(&replace)
		if err != nil || replace.Newest == "" {
			problems.Write(w, r, problem.New(problem.InvalidParameter, "The body must have the newest mark."))
			return
		}
		if _, err := row.Replace(r.Context(), replace.Seen, replace.Newest, replace.Lost); err != nil {
			problems.Write(w, r, err)
			return
		}
	}
	marks, err := row.Marks(r.Context())
	if err != nil {
		problems.Write(w, r, err)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(api.KeptMarks{Marks: marks}) // the caller disconnected
}

func (g *Guard) writeSetBack(w http.ResponseWriter, r *http.Request, problems problem.Writer) {
	failed := unavailable(ErrSetBack)
	if strings.HasPrefix(r.URL.Path, "/operator/") {
		failed.Message = "The database of this service was set back. Nothing is served or changed until you accept the loss or replay an export: see the runbook OpportunityStoreSetBack."
	}
	problems.Write(w, r, failed)
}

// response is the response to a request with marks. When it begins, the database must still have them: it may have been replaced since.
type response struct {
	http.ResponseWriter

	guard     *Guard
	request   *http.Request
	problems  problem.Writer
	marks     []string
	presented bool

	begun, replaced bool // replaced by an error
}

// Unwrap lets http.ResponseController reach the connection.
func (w *response) Unwrap() http.ResponseWriter { return w.ResponseWriter }

func (w *response) WriteHeader(status int) {
	if !w.begun && status >= http.StatusOK {
		w.begun = true
		if w.begin(status); w.replaced {
			return
		}
	}
	if !w.replaced {
		w.ResponseWriter.WriteHeader(status)
	}
}

func (w *response) Write(p []byte) (int, error) {
	if !w.begun {
		w.WriteHeader(http.StatusOK)
	}
	if w.replaced {
		return len(p), nil
	}
	return w.ResponseWriter.Write(p)
}

// Flush implements http.Flusher.
func (w *response) Flush() {
	if !w.begun {
		w.WriteHeader(http.StatusOK)
	}
	if flusher, ok := w.ResponseWriter.(http.Flusher); ok && !w.replaced {
		flusher.Flush()
	}
}

// begin adds the newest mark, or replaces the response if the database was set back since the request came, also if an operator has accepted
// that already: the response may be of the database before, and a newest mark without api.LostHeader would keep the caller's copy of it.
func (w *response) begin(status int) {
	ctx := w.request.Context()
	if status >= http.StatusInternalServerError {
		return
	}
	newest, lost, err := "", false, error(nil)
	if w.presented && status < http.StatusMultipleChoices {
		newest, err = w.guard.Newest(ctx) // before Check: the database may be replaced in between
	}
	if err == nil {
		lost, err = w.guard.Check(ctx, w.marks...) // during an outage, there is no new mark
	}
	if w.guard.Err() != nil || lost && !Lost(w) {
		w.replaced = true
		header := w.Header()
		for name := range header {
			if !slices.Contains(kept, name) {
				header.Del(name)
			}
		}
		if w.guard.Err() != nil {
			w.guard.writeSetBack(w.ResponseWriter, w.request, w.problems)
		} else { // decided already
			w.problems.Write(w.ResponseWriter, w.request, unavailable(ErrSetBack))
		}
		return
	}
	if err == nil && newest != "" {
		w.Header().Set(api.MarkHeader, newest)
	}
}

// kept are the headers of a replaced response that stay.
var kept = []string{api.RequestIDHeader}
