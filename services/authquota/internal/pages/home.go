package pages

func (s *Site) home(*visit) (view, error) { return view{Template: "home", Title: "Overview"}, nil }
