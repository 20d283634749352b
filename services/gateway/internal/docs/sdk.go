package docs

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"html/template"
	"path/filepath"

	"opportunity.internal/sdk"
)

// The page of the SDKs, and the prefix of their archives.
const (
	sdkPath  = "/sdk/"
	sdkTitle = "SDKs"
)

// sdkPages adds the page of the SDKs and every file of their distribution.
func (r rendering) sdkPages() error {
	archives, err := sdk.Archives()
	if err != nil {
		return err
	}
	sums := map[string]string{}
	for name, content := range archives {
		r.add(sdkPath+name, mediaType(name), content, cached)
		sum := sha256.Sum256(content)
		sums[name] = hex.EncodeToString(sum[:])
	}
	var body bytes.Buffer
	err = r.layout.ExecuteTemplate(&body, "sdk.html", map[string]any{
		"URL": r.publicURL, "Tarball": sdk.Tarball, "Wheel": sdk.Wheel, "Module": sdk.Module, "Sums": sums, "Version": sdk.Version,
	})
	if err != nil {
		return err
	}
	if err := r.page(sdkPath, sdkTitle, template.HTML(body.String()), cached); err != nil { //nolint:gosec // a template's output
		return err
	}
	r.documents["/sdk"] = r.documents[sdkPath]
	return nil
}

func mediaType(name string) string {
	switch filepath.Ext(name) {
	case ".tgz":
		return "application/gzip"
	case ".whl", ".zip":
		return "application/zip"
	case ".info":
		return "application/json"
	}
	return "text/plain; charset=utf-8"
}
