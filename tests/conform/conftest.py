def pytest_collection_modifyitems(config, items):
    """A level of a driver that another level has shown the same of leaves that case out."""
    def is_left_out(item):
        driver = getattr(item, "callspec", None) and item.callspec.params.get("driver")
        return driver and item.originalname in driver.level.leaves_out

    left_out = [item for item in items if is_left_out(item)]
    items[:] = [item for item in items if item not in left_out]
    config.hook.pytest_deselected(items=left_out)
