package opportunity

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

func TestKeyNeverAppearsInErrorsOrPrintedClients(t *testing.T) {
	const key = "oda_live_topsecret"
	for _, options := range [][]Option{
		{WithURL("http://localhost"), WithKey(key + "\n")},
		{WithURL("http://localhost/path?"), WithKey(key)},
		{WithURL("http://localhost/#top"), WithKey(key)},
		{WithURL("http://:8080"), WithKey(key)},
		{WithURL("http://user@localhost"), WithKey(key)},
		{WithURL("localhost:8080"), WithKey(key)},
		{WithURL(""), WithKey(key)},
	} {
		_, err := New(options...)
		if err == nil || strings.Contains(err.Error(), "topsecret") {
			t.Errorf("got error %v", err)
		}
	}
	client, err := New(WithURL("http://127.0.0.1:1"), WithKey(key), WithRetryBudget(0))
	check(t, err)
	_, err = client.Opportunity(t.Context(), "a")
	if !HasCode(err, CodeConnectionFailed) || !strings.Contains(err.Error(),
		"no response from http://127.0.0.1:1: dial") {
		t.Errorf("got error %v, want connection_failed with the address and the cause", err)
	}
	if text := fmt.Sprintf("%v %+v %#v %v", client, client, *client, err); strings.Contains(text, "topsecret") {
		t.Errorf("printed the key: %s", text)
	}
}

func TestAddressAndKeyComeFromTheEnvironment(t *testing.T) {
	t.Setenv("OPPORTUNITY_URL", "")
	t.Setenv("OPPORTUNITY_KEY", "")
	if _, err := New(WithURL("http://localhost")); err == nil {
		t.Error("a client without a key")
	}
	if _, err := New(WithKey("k")); err == nil {
		t.Error("a client without an address")
	}
	t.Setenv("OPPORTUNITY_URL", "http://localhost/")
	t.Setenv("OPPORTUNITY_KEY", "k")
	_, err := New()
	check(t, err)
}

func TestContextEndsCallsAndWaits(t *testing.T) {
	requested, done := make(chan bool, 1), make(chan bool)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		requested <- true
		if strings.HasSuffix(r.URL.Path, "/limited") {
			w.Header().Set("Retry-After", "60")
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		<-done
	}))
	defer server.Close()
	defer close(done)
	client, err := New(WithURL(server.URL), WithKey("k"))
	check(t, err)
	for _, id := range []string{"slow", "limited"} {
		ctx, cancel := context.WithCancel(t.Context())
		go func() { <-requested; cancel() }()
		if _, err := client.Opportunity(ctx, id); !errors.Is(err, context.Canceled) {
			t.Errorf("%s: got error %v, want %v", id, err, context.Canceled)
		}
	}
}

func TestTri(t *testing.T) {
	for text, want := range map[string]Tri{"true": True, "false": False, "null": Unknown} {
		var got Tri
		check(t, json.Unmarshal([]byte(text), &got))
		again, err := json.Marshal(got)
		check(t, err)
		if got != want || string(again) != text {
			t.Errorf("%s became %v and %s", text, got, again)
		}
	}
	if err := json.Unmarshal([]byte(`"yes"`), new(Tri)); err == nil {
		t.Error("a string is no Tri")
	}
	if value, known := False.Bool(); value || !known {
		t.Errorf("got %v, %v", value, known)
	}
}

func TestCheckDateTime(t *testing.T) {
	for text, want := range map[CheckDate]string{"2026-11-20": "2026-11-20T00:00:00Z",
		"2026-11-20T01:00:00+01:00": "2026-11-20T00:00:00Z"} {
		got, err := text.Time()
		check(t, err)
		if got.Format(time.RFC3339) != want {
			t.Errorf("%s is %s, want %s", text, got, want)
		}
	}
	if _, err := CheckDate("soon").Time(); err == nil {
		t.Error("soon is no time")
	}
}
