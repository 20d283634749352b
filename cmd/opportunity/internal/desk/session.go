package desk

import (
	"cmp"
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"slices"
	"sync"
	"time"
)

// Lifetimes of a session.
const (
	sessionIdle = 30 * time.Minute // since its latest request
	sessionLife = 12 * time.Hour   // since sign-in
)

// session is a signed-in browser.
type session struct {
	ID      string // not secret
	Name    string // recorded with every action
	Role    string
	Browser string // as the browser calls itself
	Started time.Time
	Seen    time.Time // latest request

	Token string // operator token; empty in List

	owner [sha256.Size]byte // hash of Token
	kept  map[string]any
}

// sessionStore holds the sessions of one process.
//
// The operator token of a session exists only in the browser's cookie, encrypted under a key that
// the process generated at startup. The process keeps who signed in and when. So neither of the two
// is enough: a cookie stops working when its session ends, and a restart ends all sessions.
type sessionStore struct {
	now  func() time.Time
	seal cipher.AEAD

	mu       sync.Mutex
	sessions map[string]*session // without tokens
}

func newSessionStore(now func() time.Time) *sessionStore {
	key := make([]byte, 32)
	_, _ = rand.Read(key)                          // never fails
	block, _ := aes.NewCipher(key)                 // the key has a valid length
	seal, _ := cipher.NewGCMWithRandomNonce(block) // so has the block
	return &sessionStore{now: now, seal: seal, sessions: map[string]*session{}}
}

// sealed is the content of a cookie.
type sealed struct{ ID, Token string }

// Start starts a session for the holder of token and returns the value of its cookie.
func (s *sessionStore) Start(token, name, role, browser string) (cookie string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.now()
	for id, old := range s.sessions { // this bounds the map
		if expired(old, now) {
			delete(s.sessions, id)
		}
	}
	id := rand.Text()
	s.sessions[id] = &session{ID: id, Name: name, Role: role, Browser: browser, Started: now, Seen: now,
		owner: sha256.Sum256([]byte(token)), kept: map[string]any{}}
	content, _ := json.Marshal(sealed{id, token}) // two strings
	return s.Seal(content)
}

// Seal encrypts content. Only this process can make such a text and read it.
func (s *sessionStore) Seal(content []byte) string {
	sealed := s.seal.Seal(nil, nil, content, nil) //nolint:gosec // the cipher adds a random nonce
	return base64.RawURLEncoding.EncodeToString(sealed)
}

// Unseal returns the content of a result of Seal. It returns false for any other text.
func (s *sessionStore) Unseal(text string) (content []byte, ok bool) {
	sealed, err := base64.RawURLEncoding.DecodeString(text)
	if err == nil {
		content, err = s.seal.Open(nil, nil, sealed, nil)
	}
	return content, err == nil
}

// Resume returns the session of a cookie and notes the time of the request. It returns false if the
// session has ended.
func (s *sessionStore) Resume(cookie string) (session, bool) {
	var c sealed
	if content, ok := s.Unseal(cookie); !ok || json.Unmarshal(content, &c) != nil {
		return session{}, false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	now, found := s.now(), s.sessions[c.ID]
	if found == nil || expired(found, now) {
		delete(s.sessions, c.ID)
		return session{}, false
	}
	found.Seen = now
	resumed := *found
	resumed.Token = c.Token
	return resumed, true
}

func expired(s *session, now time.Time) bool {
	return now.Sub(s.Seen) >= sessionIdle || now.Sub(s.Started) >= sessionLife
}

// End ends a session. An ended or unknown one is no error.
func (s *sessionStore) End(id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.sessions, id)
}

// List returns the sessions of the holder of token, latest first. Names do not identify the holder:
// those of shared tokens are claims.
func (s *sessionStore) List(token string) []session {
	s.mu.Lock()
	defer s.mu.Unlock()
	var list []session
	for _, found := range s.sessions {
		if found.owner == sha256.Sum256([]byte(token)) && !expired(found, s.now()) {
			list = append(list, *found)
		}
	}
	slices.SortFunc(list, func(a, b session) int { return cmp.Or(b.Seen.Compare(a.Seen), cmp.Compare(a.ID, b.ID)) })
	return list
}

// Keep stores a value with a session under a name until Take or the end of the session. It replaces
// the one before.
func (s *sessionStore) Keep(id, name string, value any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if found := s.sessions[id]; found != nil {
		found.kept[name] = value
	}
}

// Take returns the value that Keep stored, nil if there is none, and removes it.
func (s *sessionStore) Take(id, name string) (value any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if found := s.sessions[id]; found != nil {
		value = found.kept[name]
		delete(found.kept, name)
	}
	return value
}
