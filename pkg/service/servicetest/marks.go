package servicetest

import (
	"encoding/json"
	"net/http"
	"strings"
	"sync"

	"opportunity.internal/pkg/api"
)

// Marks is a fake of the high-water marks that a service keeps for another.
type Marks struct {
	mu   sync.Mutex
	kept []string
}

// Kept returns the marks.
func (m *Marks) Kept() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.kept
}

// Serve handles a request about the marks, and reports false for other requests.
func (m *Marks) Serve(w http.ResponseWriter, r *http.Request) bool {
	if !strings.HasPrefix(r.URL.Path, api.MarksPath) {
		return false
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	var replace api.ReplaceMarks
	if r.Method == http.MethodPost && json.NewDecoder(r.Body).Decode(&replace) == nil {
		m.kept = []string{replace.Newest}
	}
	_ = json.NewEncoder(w).Encode(api.KeptMarks{Marks: m.kept})
	return true
}
