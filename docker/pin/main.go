// Command pin adds the digest to each third-party image that the given files name by tag:
// "redis:7.4.1" becomes "redis:7.4.1@sha256:...", the digest that the registry has for the tag now.
// A digest that is already there is replaced, so the command also updates. It asks the registry of
// each image and writes no file unless every image has an answer.
package main

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"

	"github.com/google/go-containerregistry/pkg/crane"
)

// named matches an image with a tag in a Dockerfile or in YAML: the text before it, the image and,
// if present, its digest. Images with a variable, such as those built here, do not match.
var named = regexp.MustCompile(`(?m)^(\s*(?:-\s+)?(?:image:|FROM)\s+)([a-z0-9][\w./-]*(?::\d+/[\w./-]+)?:[\w.-]+)(@sha256:[0-9a-f]{64})?(\s|$)`)

func main() {
	if err := pin(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "pin:", err)
		os.Exit(1)
	}
}

// pin rewrites the files that match the patterns.
func pin(patterns []string) error {
	texts, err := read(patterns)
	if err != nil {
		return err
	}
	digests := map[string]string{}
	for _, text := range texts {
		for _, match := range named.FindAllSubmatch(text, -1) {
			image := string(match[2])
			if digests[image] != "" {
				continue
			}
			digest, err := crane.Digest(image)
			if err != nil {
				return fmt.Errorf("resolving %s: %w", image, err)
			}
			digests[image] = digest
			fmt.Println(image, digest)
		}
	}
	for name, text := range texts {
		pinned := named.ReplaceAllFunc(text, func(line []byte) []byte {
			match := named.FindSubmatch(line)
			return fmt.Appendf(nil, "%s%s@%s%s", match[1], match[2], digests[string(match[2])], match[4])
		})
		if err := os.WriteFile(name, pinned, 0o600); err != nil {
			return err
		}
	}
	return nil
}

func read(patterns []string) (map[string][]byte, error) {
	texts := map[string][]byte{}
	for _, pattern := range patterns {
		names, err := filepath.Glob(pattern)
		if err != nil || len(names) == 0 {
			return nil, fmt.Errorf("no file matches %q", pattern)
		}
		for _, name := range names {
			text, err := os.ReadFile(name) //nolint:gosec // the user names the files
			if err != nil {
				return nil, err
			}
			texts[name] = text
		}
	}
	return texts, nil
}
