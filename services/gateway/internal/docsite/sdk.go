package docsite

import (
	"crypto/sha256"
	"encoding/hex"
	"path/filepath"
	"sync"

	"opportunity.internal/sdk"
)

// The page of the SDKs, and the prefix of their archives.
const (
	sdkPath        = "/sdk/"
	sdkTitle       = "SDKs"
	sdkDescription = "Clients for Go, TypeScript and Python without dependencies: how to install them, and their files " +
		"with checksums."
)

// archives returns the files of the distribution. Every rendering has the same ones.
var archives = sync.OnceValues(sdk.Archives)

func (r rendering) sdkPages() error {
	archives, err := archives()
	if err != nil {
		return err
	}
	sums := map[string]string{}
	for name, content := range archives {
		r.add(sdkPath+name, mediaType(name), content, cached)
		sum := sha256.Sum256(content)
		sums[name] = hex.EncodeToString(sum[:])
	}
	text, err := r.source("sdk.md", map[string]any{
		"URL": r.publicURL, "Tarball": sdk.Tarball, "Wheel": sdk.Wheel, "Module": sdk.Module, "Command": sdk.Command,
		"Sums": sums, "Version": sdk.Version,
	})
	if err != nil {
		return err
	}
	p := page{Path: sdkPath, Title: sdkTitle, Description: sdkDescription, cache: cached}
	if err := r.markdownPage(p, text); err != nil {
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
