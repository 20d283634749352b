// Command keep-a-copy updates a copy of all records in the file copy.json. Run it as often as your
// use needs.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log"
	"maps"
	"os"
	"slices"

	"opportunity.internal/sdk/go/opportunity"
)

// fileStore is a copy in a JSON file. A program with a database stores records and state in one
// transaction instead.
type fileStore struct {
	path string

	Progress opportunity.SyncState              `json:"state"`
	Records  map[string]opportunity.Opportunity `json:"records"`
}

func open(path string) (*fileStore, error) {
	store := &fileStore{path: path, Records: map[string]opportunity.Opportunity{}}
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return store, nil
	}
	if err != nil {
		return nil, err
	}
	return store, json.Unmarshal(text, store)
}

// State returns the progress of the copy.
func (s *fileStore) State(context.Context) (opportunity.SyncState, error) { return s.Progress, nil }

// IDs returns the ids of the copied records.
func (s *fileStore) IDs(context.Context) ([]string, error) {
	return slices.Collect(maps.Keys(s.Records)), nil
}

// Apply writes a new file and then renames it, so a crash leaves the old copy.
func (s *fileStore) Apply(_ context.Context, changes opportunity.Changes) error {
	for _, record := range changes.Put {
		s.Records[record.ID] = record
	}
	for _, id := range changes.Remove {
		delete(s.Records, id)
	}
	s.Progress = changes.State
	text, err := json.Marshal(s)
	if err != nil {
		return err
	}
	if err := os.WriteFile(s.path+".new", text, 0o600); err != nil {
		return err
	}
	return os.Rename(s.path+".new", s.path)
}

func main() {
	client, err := opportunity.New()
	if err != nil {
		log.Fatal(err)
	}
	store, err := open("copy.json")
	if err != nil {
		log.Fatal(err)
	}
	result, err := client.Sync(context.Background(), store, opportunity.SyncOptions{})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("all: %t, stored: %d, removed: %d\n", result.Full, result.Put, result.Removed)
}
