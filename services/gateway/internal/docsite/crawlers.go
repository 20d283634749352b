package docsite

import (
	"encoding/xml"
	"fmt"
	"strings"

	"opportunity.internal/docs"
)

func (r rendering) forCrawlers() error {
	r.add("/robots.txt", "text/plain; charset=utf-8", fmt.Appendf(nil,
		"User-agent: *\nDisallow: /account\nDisallow: /api/\nDisallow: /billing/\n\nSitemap: %s/sitemap.xml\n", r.publicURL),
		cached)
	sitemap, err := r.sitemap()
	r.add("/sitemap.xml", "application/xml", sitemap, cached)
	r.add("/llms.txt", "text/plain; charset=utf-8", []byte(r.llms()), cached)
	return err
}

func (r rendering) sitemap() ([]byte, error) {
	type location struct {
		Loc string `xml:"loc"`
	}
	urls := struct {
		XMLName xml.Name   `xml:"http://www.sitemaps.org/schemas/sitemap/0.9 urlset"`
		URLs    []location `xml:"url"`
	}{URLs: []location{{r.publicURL + "/"}, {r.publicURL + termsPath}, {r.publicURL + privacyPath}}}
	for _, e := range entries() {
		urls.URLs = append(urls.URLs, location{r.publicURL + e.Path})
	}
	text, err := xml.Marshal(urls)
	return append([]byte(xml.Header), text...), err
}

// llms lists the Markdown texts of the pages, in the form of https://llmstxt.org.
func (r rendering) llms() string {
	var out strings.Builder
	fmt.Fprintf(&out, "# %s\n\n> %s\n\nThe OpenAPI description of the API is at %s/openapi.yaml.\n", siteName,
		frontDescription, r.publicURL)
	for _, group := range docs.Groups {
		fmt.Fprintf(&out, "\n## %s\n\n", group)
		for _, e := range entries() {
			if e.Group != group {
				continue
			}
			at := e.Path
			if _, ok := r.documents[markdownPath(at)]; ok {
				at = markdownPath(at)
			}
			fmt.Fprintf(&out, "- [%s](%s%s): %s\n", e.Title, r.publicURL, at, e.Description)
		}
	}
	return out.String()
}
