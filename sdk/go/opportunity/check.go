package opportunity

import (
	"encoding/json"
	"errors"
	"fmt"
)

// checked is the body of a response that can tell whether it is one of the API. A proxy also
// answers with 200 and JSON, and a copy must not lose its records because of it.
type checked interface{ check(body []byte) error }

// item has members of records, events and changes that a copy needs.
type item struct {
	ID           string `json:"id"`
	Verification struct {
		LastCheckedAt json.RawMessage `json:"lastCheckedAt"` // absent if nil
		FreshUntil    json.RawMessage `json:"freshUntil"`
	} `json:"verification"`
	Change string `json:"change"`
	Cursor string `json:"cursor"`
}

func (i item) isRecord() bool {
	return i.ID != "" && i.Verification.LastCheckedAt != nil && i.Verification.FreshUntil != nil
}

func (i item) isEvent() bool { return i.ID != "" }

func (i item) isChange() bool { return i.ID != "" && i.Change != "" && i.Cursor != "" }

func (p *Page[T]) check(body []byte) error {
	if _, records := any(p).(*Page[Opportunity]); records {
		return checkPage(body, p.Meta, item.isRecord)
	}
	return checkPage(body, p.Meta, item.isEvent)
}

func (p *ChangePage) check(body []byte) error {
	if p.Pagination.Cursor == "" {
		return errors.New("pagination.cursor is missing")
	}
	return checkPage(body, p.Meta, item.isChange)
}

func (d *Detail) check(body []byte) error {
	var record struct {
		Data item `json:"data"`
	}
	if err := json.Unmarshal(body, &record); err != nil {
		return err
	}
	if !record.Data.isRecord() {
		return errors.New("data is not a record")
	}
	return checkMeta(d.Meta)
}

// checkPage checks the members that every page has, and each item.
func checkPage(body []byte, meta Meta, complete func(item) bool) error {
	var page struct {
		Data       []item `json:"data"`
		Pagination struct {
			Limit   int     `json:"limit"`
			HasMore *bool   `json:"hasMore"`
			Next    *string `json:"next"`
		} `json:"pagination"`
	}
	if err := json.Unmarshal(body, &page); err != nil {
		return err
	}
	switch {
	case page.Data == nil:
		return errors.New("data is not a list")
	case page.Pagination.Limit < 1:
		return errors.New("pagination.limit is not a positive number")
	case page.Pagination.HasMore == nil:
		return errors.New("pagination.hasMore is not a boolean")
	case *page.Pagination.HasMore && page.Pagination.Next == nil:
		return errors.New("pagination.next is missing")
	}
	for n, i := range page.Data {
		if !complete(i) {
			return fmt.Errorf("data[%d] is incomplete", n)
		}
	}
	return checkMeta(meta)
}

func checkMeta(meta Meta) error {
	if meta.Version != "1" {
		return fmt.Errorf("meta.version is %q, want \"1\"", meta.Version)
	}
	return nil
}
