<?php // core/index.php
