package apitest

import (
	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/listingfile"
)

// Lines returns a valid line of an import file for each id.
func Lines(ids ...string) []listingfile.Line {
	out := make([]listingfile.Line, len(ids))
	for i, id := range ids {
		out[i].Listing = listingfile.Listing{
			ID: id, Sources: []api.Source{{URL: "https://source.example"}}, Platform: api.Platform{
				Company:        api.Company{Name: "Platform " + id, Website: "https://" + id + ".example"},
				ApplicationURL: "https://a.example", Category: api.Online, Summary: "s",
			},
		}
	}
	return out
}

// File returns the lines as those of a file.
func File(lines []listingfile.Line) func(add func(listingfile.Line) error) error {
	return func(add func(listingfile.Line) error) error {
		for _, l := range lines {
			if err := add(l); err != nil {
				return err
			}
		}
		return nil
	}
}
