"""Configs written for people."""
