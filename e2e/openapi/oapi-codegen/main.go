// Command oapi-codegen lists opportunities with a client that oapi-codegen generates from the
// served description. It prints the id of each record, its remote fact and the date of its first
// source.
package main

import (
	"context"
	"fmt"
	"log"
	"net/http"
	"os"

	"opportunity.internal/e2e/openapi/oapi-codegen/client"
)

func main() {
	authorize := func(_ context.Context, r *http.Request) error {
		r.Header.Set("Authorization", "Bearer "+os.Getenv("OPPORTUNITY_KEY"))
		return nil
	}
	api, err := client.NewClientWithResponses(os.Args[1], client.WithRequestEditorFn(authorize))
	if err != nil {
		log.Fatal(err)
	}
	country, limit := "CA", 50
	list, err := api.ListOpportunitiesWithResponse(context.Background(),
		&client.ListOpportunitiesParams{Country: &country, Limit: &limit})
	if err != nil {
		log.Fatal(err)
	}
	if list.JSON200 == nil {
		log.Fatalf("%s: %s", list.Status(), list.Body)
	}
	for _, record := range list.JSON200.Data {
		remote, checked := "unknown", "unknown"
		if record.Facts.Remote != nil {
			remote = fmt.Sprint(*record.Facts.Remote)
		}
		if len(record.Sources) > 0 && record.Sources[0].CheckedAt != nil {
			checked = string(*record.Sources[0].CheckedAt)
		}
		fmt.Println(record.Id, remote, checked)
	}
}
