"""What the window tests stand on: a private display, a tray host on D-Bus, a WebDriver session."""
